"""Rerank and score: how well documents answer a query, in the shapes of vLLM, Jina, Cohere, llama.cpp and TEI."""
