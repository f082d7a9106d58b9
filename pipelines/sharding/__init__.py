"""How a program is split among the ranks of a grid: what a split is, its rules, and plans."""
