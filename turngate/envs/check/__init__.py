"""``check_env``: whether an environment keeps the rules that training relies on."""
