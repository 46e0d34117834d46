-- a small shop
CREATE TABLE customers (
  id INTEGER PRIMARY KEY,
  name VARCHAR(80) NOT NULL DEFAULT 'a, b (c)',
  email TEXT,
  UNIQUE (email)
);
create table if not exists "orders" (id int, customer_id int references customers(id), total numeric(10, 2));
CREATE UNIQUE INDEX by_email ON customers(email);
INSERT INTO customers VALUES (1, 'Ines', 'i@example.org');
INSERT INTO customers VALUES (2, 'Omar', 'o@example.org');
INSERT INTO "orders" (id, customer_id, total) VALUES (1, 1, 31.5);
COPY public.visits (id, day) FROM stdin;
1	2024-01-01
INSERT INTO nothing VALUES (1);
3	2024-01-03
\.
SELECT count(*) FROM customers;
