"""Written in the language itself: cooperative algorithms (`fx.coop`) and random numbers (`fx.random`)."""
