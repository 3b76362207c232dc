"""What watches scores, rates and other measures."""
