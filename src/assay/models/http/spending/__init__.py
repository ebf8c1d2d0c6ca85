"""What requests cost: tokens counted, prices, the budget of a run, and a forecast before any is sent."""
