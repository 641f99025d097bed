"""The learner that runs on torch in this process. Importing this package loads nothing; its modules load torch."""
