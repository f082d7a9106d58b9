"""Prompts of many kinds for comparing whole answers with PyTorch's."""

LONG = (
    "The lighthouse keeper wrote in his log every evening. The wind came from the west, the sea "
    "was grey, and two ships passed before dark. He counted the lamps, trimmed the wicks, and "
    "noted the hour at which the fog lifted. "
)

# (name, prompt, raw): raw prompts are continued as they are, the others are a user's chat message.
PROMPTS = [
    ("capital", "The capital of France is", True),
    ("one word", "Hello", True),
    ("chat greeting", "Hi, who are you?", False),
    ("python", "def fibonacci(n):\n    if n < 2:\n        return n\n", True),
    ("german", "Es war einmal ein König, der hatte drei Töchter, und", True),
    ("arithmetic", "What is 17 + 25? Think step by step.", False),
    ("json", '{"name": "Alice", "age": 31, "city": "Paris", "tags": ["a",', True),
    ("list", "Write a list of five things to pack for a hike.", False),
    ("french", "Quelle est la capitale de l'Italie ?", False),
    ("chinese", "北京是中国的", True),
    ("emoji", "I love pizza 🍕 and ice cream 🍦 because", True),
    ("c code", "#include <stdio.h>\n\nint main(void) {\n    for (int i = 0;", True),
    ("sql", "SELECT name, COUNT(*) FROM orders WHERE", True),
    ("story", "Once upon a time, in a village by the sea, there lived", True),
    ("digits", "3.14159265358979 2.71828 1 2 3 4 5 6 7", True),
    ("russian", "Привет, как дела? Сегодня", True),
    ("markdown", "# Report\n\n## Summary\n\n- First point\n-", True),
    ("instruction", "Explain in two sentences why the sky is blue.", False),
    ("whitespace", "   a   b \n\n\t c", True),
    ("math", "Theorem. Every finite group of prime order is cyclic.\nProof.", True),
    ("long", LONG * 9 + "That night", True),
    ("long chat", "Summarise this text in one sentence: " + LONG * 6, False),
    ("near the context", LONG * 19 + "In the morning", True),
]

QUICK = ("capital", "chat greeting", "long")
