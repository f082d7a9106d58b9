// RUN: llmc-opt %s --pass-pipeline='builtin.module(number-layers)'
