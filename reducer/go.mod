module github.com/weirflow/weir/reducer

go 1.26
