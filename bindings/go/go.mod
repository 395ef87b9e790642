module perftax/tag

go 1.21
