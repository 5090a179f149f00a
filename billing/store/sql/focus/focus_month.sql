-- FOCUS charges of a billing month as they are stored.
SELECT * FROM focus_charges WHERE billing_month = {month:String}
