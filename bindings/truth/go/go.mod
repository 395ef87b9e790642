module perftax/truth

go 1.21

require perftax/tag v0.0.0

replace perftax/tag => ../../go
