"""Finds the plan whose predicted step is the shortest, and says what it costs."""
