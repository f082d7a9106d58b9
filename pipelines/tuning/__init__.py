"""The search for each kernel's best parameters on this machine, and what was found."""
