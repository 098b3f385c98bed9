module github.com/weirflow/weir/persistence/redis

go 1.26.0

require (
	github.com/redis/go-redis/v9 v9.23.0
	github.com/weirflow/weir/core v0.0.0
	github.com/weirflow/weir/persistence v0.0.0
)

replace (
	github.com/weirflow/weir/core => ../../core
	github.com/weirflow/weir/persistence => ../
	github.com/weirflow/weir/reducer => ../../reducer
)
