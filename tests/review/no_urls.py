"""A site without the page of review links."""

urlpatterns: list[object] = []
