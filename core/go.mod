module github.com/weirflow/weir/core

go 1.26
