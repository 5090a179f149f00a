-- Readers of a ClickHouse server: finance reads everything, a customer its own rows of what it was sent. Run once as an administrator, after
-- the first `loraledger` command made the schema, and again after an upgrade: every statement may be repeated.
--
--     clickhouse-client --queries-file deploy/roles.sql
--
-- Nobody here writes. A person of finance:
--     CREATE USER maria IDENTIFIED WITH sha256_password BY '...' DEFAULT ROLE finance_reader; GRANT finance_reader TO maria;
-- A customer gets two roles, the shared one and that of its tenant id:
--     CREATE ROLE tenant_clinic; CREATE USER clinic_bi IDENTIFIED WITH sha256_password BY '...';
--     GRANT customer_reader, tenant_clinic TO clinic_bi; SET DEFAULT ROLE ALL TO clinic_bi;
-- Views run with the rights of whoever asks, so what counts are the tables beneath: those are granted, and cut to the tenant's rows.
-- On a cluster give the same policies to the `<table>_local` tables, ON CLUSTER.

CREATE ROLE IF NOT EXISTS finance_reader SETTINGS readonly = 2, max_execution_time = 300;
GRANT SELECT ON loraledger.* TO finance_reader;

CREATE ROLE IF NOT EXISTS customer_reader SETTINGS readonly = 2, max_execution_time = 60, max_memory_usage = 2000000000;
GRANT SELECT ON loraledger.focus_charges TO customer_reader;
GRANT SELECT ON loraledger.focus_v1_4 TO customer_reader;
GRANT SELECT ON loraledger.focus_v1_2 TO customer_reader;
GRANT SELECT ON loraledger.focus_payable TO customer_reader;
GRANT SELECT ON loraledger.focus_invoice_detail TO customer_reader;
GRANT SELECT ON loraledger.invoices TO customer_reader;
GRANT SELECT ON loraledger.invoice_lines TO customer_reader;
GRANT SELECT ON loraledger.credit_notes TO customer_reader;
GRANT SELECT ON loraledger.credit_note_lines TO customer_reader;
GRANT SELECT ON loraledger.usage TO customer_reader;

-- What the views read. Cost, prices and other customers' figures are in tables that are not granted at all.
GRANT SELECT ON loraledger.focus_charge_versions TO customer_reader;
GRANT SELECT ON loraledger.invoice_versions TO customer_reader;
GRANT SELECT ON loraledger.invoice_line_versions TO customer_reader;
GRANT SELECT ON loraledger.issued_documents TO customer_reader;
GRANT SELECT ON loraledger.usage_versions TO customer_reader;

CREATE ROW POLICY IF NOT EXISTS own_rows ON loraledger.focus_charge_versions FOR SELECT USING has(enabledRoles(), concat('tenant_', tenant)) TO customer_reader;
CREATE ROW POLICY IF NOT EXISTS own_rows ON loraledger.invoice_versions FOR SELECT USING has(enabledRoles(), concat('tenant_', tenant)) TO customer_reader;
CREATE ROW POLICY IF NOT EXISTS own_rows ON loraledger.invoice_line_versions FOR SELECT USING has(enabledRoles(), concat('tenant_', tenant)) TO customer_reader;
CREATE ROW POLICY IF NOT EXISTS own_rows ON loraledger.issued_documents FOR SELECT USING has(enabledRoles(), concat('tenant_', tenant)) TO customer_reader;
CREATE ROW POLICY IF NOT EXISTS own_rows ON loraledger.usage_versions FOR SELECT USING has(enabledRoles(), concat('tenant_', tenant)) TO customer_reader;

-- A table with a policy shows nothing to those whom no policy names: the ledger itself and finance see all rows.
CREATE ROW POLICY IF NOT EXISTS all_rows ON loraledger.focus_charge_versions FOR SELECT USING 1 TO ALL EXCEPT customer_reader;
CREATE ROW POLICY IF NOT EXISTS all_rows ON loraledger.invoice_versions FOR SELECT USING 1 TO ALL EXCEPT customer_reader;
CREATE ROW POLICY IF NOT EXISTS all_rows ON loraledger.invoice_line_versions FOR SELECT USING 1 TO ALL EXCEPT customer_reader;
CREATE ROW POLICY IF NOT EXISTS all_rows ON loraledger.issued_documents FOR SELECT USING 1 TO ALL EXCEPT customer_reader;
CREATE ROW POLICY IF NOT EXISTS all_rows ON loraledger.usage_versions FOR SELECT USING 1 TO ALL EXCEPT customer_reader;
