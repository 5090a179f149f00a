-- A billing month of focus_billing_period: of one tenant's time zone or of all. The tenant's period is that of its charges.
SELECT * FROM focus_billing_period
WHERE x_BillingMonth = {month:String}
    AND ({tenant:String} = '' OR BillingPeriodStart IN (SELECT period_start FROM focus_charges WHERE tenant = {tenant:String} AND billing_month = {month:String}))
ORDER BY BillingPeriodStart, BillingPeriodEnd
