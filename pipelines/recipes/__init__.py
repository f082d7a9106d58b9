"""Recipes: how the archive computes its entries from the weights of the model."""
