"""Where an agent works on code, and where its work is measured."""
