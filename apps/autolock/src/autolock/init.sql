-- The user table of the lock. MariaDB's image reads this at the first start only.
CREATE TABLE IF NOT EXISTS users (
  id INT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  user_name VARCHAR(255),
  line_id VARCHAR(255) UNIQUE,
  slack_id VARCHAR(255) UNIQUE,
  start_date DATETIME,
  end_date DATETIME
) CHARACTER SET utf8mb4;
