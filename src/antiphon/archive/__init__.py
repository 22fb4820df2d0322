"""What is stored of answers: responses and their conversations, chat completions."""
