-- blocking: no. FOCUS 1.4 Invoice Detail, read from the documents themselves: a row per line and per tax rate. A credit note refers to its invoice
-- and is billed in the period in which it was issued, which only its charges know.
CREATE VIEW focus_invoice_detail AS
WITH doc.kind = 'credit_note' AS credits
SELECT
    if(credits, -part.amount, part.amount) AS BilledCost,
    doc.tenant AS BillingAccountId,
    doc.currency AS BillingCurrency,
    if(billed.invoice = '', parseDateTimeBestEffort(JSONExtractString(doc.document, 'end'), 'UTC'), billed.period_end) AS BillingPeriodEnd,
    if(billed.invoice = '', parseDateTimeBestEffort(JSONExtractString(doc.document, 'start'), 'UTC'), billed.period_start) AS BillingPeriodStart,
    multiIf(
        part.kind = 'tax', 'Tax',
        part.kind = 'rounding', 'Adjustment',
        part.kind IN ('t_kv', 'discount', 'covered'), 'Credit',
        part.amount < 0 AND part.kind NOT IN ('t_b', 't_a', 't_cold', 'idle', 'input', 'cached_input', 'output', 'correction'), 'Credit',
        'Usage'
    ) AS ChargeCategory,
    doc.cutoff AS InvoiceDetailCreated,
    if(part.note = '', part.description, concat(part.description, ', ', part.note)) AS InvoiceDetailDescription,
    concat('{"SubAccountId":', toJSONString(doc.tenant), ',"x_Item":', toJSONString(part.kind), '}') AS InvoiceDetailGrain,
    concat(doc.invoice, '/', part.id) AS InvoiceDetailId,
    doc.cutoff AS InvoiceDetailLastUpdated,
    doc.invoice AS InvoiceId,
    if(doc.number = '', NULL, parseDateTimeBestEffortOrNull(JSONExtractString(doc.document, 'issued_on'), 'UTC')) AS InvoiceIssueDate,
    if(doc.number = '', 'Open', 'Issued') AS InvoiceIssueStatus,
    JSONExtractString(doc.document, 'seller', 'name') AS InvoiceIssuerName,
    doc.currency AS PaymentCurrency,
    if(credits, -part.amount, part.amount) AS PaymentCurrencyBilledCost,
    concat(doc.invoice, '/', part.id) AS PaymentCurrencyInvoiceDetailId,
    if(doc.number = '' OR credits, NULL, parseDateTimeBestEffortOrNull(JSONExtractString(doc.document, 'due_on'), 'UTC')) AS PaymentDueDate,
    if(credits, 'Credit', concat('Net ', toString(JSONExtractUInt(doc.document, 'payment_days')), ' days')) AS PaymentTerms,
    nullIf(JSONExtractString(doc.document, 'purchase_order'), '') AS PurchaseOrderNumber,
    if(credits, JSONExtractString(doc.document, 'invoice'), doc.invoice) AS ReferenceInvoiceId,
    if(billed.invoice = '', doc.billing_month, billed.billing_month) AS x_BillingMonth
FROM
(
    SELECT
        tenant, billing_month, kind, number, document,
        JSONExtractString(document, 'currency') AS currency,
        if(number = '', concat('draft-', tenant, '-', billing_month), number) AS invoice,
        toDateTime(parseDateTimeBestEffort(JSONExtractString(document, 'cutoff'), 'UTC'), 'UTC') AS cutoff,
        arrayConcat(
            arrayMap(
                line -> CAST((toString(line.1), line.2, line.3, ifNull(line.4, ''), toDecimal128(line.5, 18)), 'Tuple(id String, kind String, description String, note String, amount Decimal(38, 18))'),
                JSONExtract(document, 'lines', 'Array(Tuple(position UInt32, kind String, description String, note Nullable(String), amount String))')
            ),
            arrayMap(
                (tax, number_of_group) -> CAST((concat('tax-', toString(number_of_group)), 'tax', concat('Tax, ', toString(toDecimal128(tax.1, 18) * 100), ' %'), '', toDecimal128(tax.2, 18)), 'Tuple(id String, kind String, description String, note String, amount Decimal(38, 18))'),
                JSONExtract(document, 'taxes', 'Array(Tuple(rate String, amount String))') AS taxes,
                arrayEnumerate(taxes)
            )
        ) AS parts
    FROM
    (
        SELECT draft.tenant, draft.billing_month, 'invoice' AS kind, draft.number, draft.document FROM invoices AS draft WHERE draft.number = ''
        UNION ALL
        SELECT tenant, billing_month, kind, number, document FROM issued_documents
    )
) AS doc
ARRAY JOIN doc.parts AS part
LEFT JOIN
(
    SELECT invoice, any(billing_month) AS billing_month, any(period_start) AS period_start, any(period_end) AS period_end
    FROM focus_charges
    GROUP BY invoice
) AS billed ON billed.invoice = doc.invoice
