module github.com/weirflow/weir/persistence/redis

go 1.26.0

require (
	github.com/redis/go-redis/v9 v9.23.0
	github.com/weirflow/weir/core v0.0.0
	github.com/weirflow/weir/persistence v0.0.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/klauspost/compress v1.20.4 // indirect
	github.com/weirflow/weir/reducer v0.0.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace (
	github.com/weirflow/weir/core => ../../core
	github.com/weirflow/weir/persistence => ../
	github.com/weirflow/weir/reducer => ../../reducer
)
