"""What Antiphon has beside the APIs of others: tokens, prompts, schemas, templates."""
