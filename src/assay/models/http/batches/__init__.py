"""The batch APIs of providers: requests in one file, collected later, also by another process."""
