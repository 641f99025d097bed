"""Sites that are made up here, with endless tasks."""
