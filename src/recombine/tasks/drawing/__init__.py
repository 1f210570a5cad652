"""Renderers: images of bumps and sprites from their latents."""
