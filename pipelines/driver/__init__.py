"""Runs pipelines, pass by pass, and shows what happens: IR, times, diagnostics, reproducers."""
