"""Sites: the places of workers and storage elements, and the distance between them."""
