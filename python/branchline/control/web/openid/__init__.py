"""Login through an OpenID Connect provider."""
