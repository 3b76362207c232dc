"""What every route needs: the context, turns, pages of lists, problems, versions."""
