module github.com/weirflow/weir/persistence

go 1.26

require (
	github.com/klauspost/compress v1.20.4
	github.com/weirflow/weir/core v0.0.0
	github.com/weirflow/weir/reducer v0.0.0
)

require go.uber.org/goleak v1.3.0

replace (
	github.com/weirflow/weir/core => ../core
	github.com/weirflow/weir/reducer => ../reducer
)
