"""The storage services that come with the package."""
