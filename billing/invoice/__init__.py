"""What a tenant is charged: prices, plans, rating, the invoice, credit notes, corrections, postings."""
