module github.com/weirflow/weir/conformance

go 1.26

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/weirflow/weir/core v0.0.0
	github.com/weirflow/weir/persistence v0.0.0
	github.com/weirflow/weir/reducer v0.0.0
	pgregory.net/rapid v1.3.0
)

require github.com/klauspost/compress v1.20.4 // indirect

replace (
	github.com/weirflow/weir/core => ../core
	github.com/weirflow/weir/persistence => ../persistence
	github.com/weirflow/weir/reducer => ../reducer
)
