"""What is known of the machines that llmc compiles for."""
