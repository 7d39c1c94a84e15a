"""The pages and the claims of the provider that tests start; it is imported in its process alone."""

from __future__ import annotations

import json

from django.conf import settings
from django.contrib.auth.views import LoginView
from django.urls import include, path
from oauth2_provider.oauth2_validators import OAuth2Validator

urlpatterns = [path("sign-in", LoginView.as_view()), path("o/", include("oauth2_provider.urls"))]


class Validator(OAuth2Validator):
    """Says names and groups beside who it is: in the ID token, or where it is asked with the access token."""

    oidc_claim_scope = OAuth2Validator.oidc_claim_scope | {"groups": "profile"}

    def get_additional_claims(self, request):
        name = {"preferred_username": f"{request.user.username}@example.org"}
        return name if settings.CLIENT["userinfo"] else name | self._groups(request)

    def get_userinfo_claims(self, request):
        return super().get_userinfo_claims(request) | self._groups(request)

    def _groups(self, request):
        people = json.loads(settings.PEOPLE.read_text(encoding="utf-8"))
        return {"groups": people[request.user.username]}
