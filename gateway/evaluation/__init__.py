"""Cases come in: questions, and the resources that should be injected for each. Figures and advice go out."""
