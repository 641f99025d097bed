"""Three small environments, each as short as its rules: a card game, questions about tables, a service with orders."""
