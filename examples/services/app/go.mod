module perftax/app

go 1.21

require perftax/tag v0.0.0

replace perftax/tag => ../../../bindings/go
