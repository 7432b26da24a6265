"""How many examples property tests try: `--hypothesis-profile=long` for a long run."""

from hypothesis import HealthCheck, settings

settings.register_profile("quick", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", settings.get_profile("quick"), max_examples=5000)
settings.load_profile("quick")
