-- A billing month of focus_v1_2, of one tenant or of all, with the columns of the specification first.
SELECT * FROM focus_v1_2
WHERE x_BillingMonth = {month:String} AND ({tenant:String} = '' OR SubAccountId = {tenant:String})
ORDER BY InvoiceId, ChargePeriodStart, ChargePeriodEnd, ifNull(ResourceId, ''), ChargeCategory, ifNull(SkuId, ''), x_ChargeKind, BilledCost
