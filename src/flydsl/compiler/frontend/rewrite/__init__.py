"""The parts of the AST rewriter: finding source, analysing names, rewriting statements. See `compiler.ast_rewriter`."""
