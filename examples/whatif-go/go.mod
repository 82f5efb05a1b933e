module supercargo.dev/examples/whatif-go

go 1.23
