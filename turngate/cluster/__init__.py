"""Several machines, on Ray: a connection to its cluster. What is placed there lies beside what it stands for."""
