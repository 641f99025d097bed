"""Small environments, each as short as its rules: cards, tables, a service with orders, word problems, a wiki."""
