// Read by ../flags.mlir.
func.func private @a()
//###
func.func private @b()

//##
