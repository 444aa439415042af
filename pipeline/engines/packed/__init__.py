"""GPT-J, GPT-2 and Llama-like models on one token axis, without padding."""
