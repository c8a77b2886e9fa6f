function yes = isName(name)
  % isName  Whether a text can name an item or an array: one part of a path that does not begin with a dot.
  yes = ischar(name) && ~isempty(name) && ~any(ismember(name, ['/' '\' char(0)])) && name(1) ~= '.' && ~strcmp(name, '__pycache__');
end
