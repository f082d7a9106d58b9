"""What passes see and build by: patterns, analyses and rewrites that are no passes themselves."""
