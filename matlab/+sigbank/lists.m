function keys = lists(text)
  % lists  The keys of a JSON object whose values are lists, named as jsondecode names them, in a cell array. What jsondecode makes of [1] is
  % what it makes of 1.
  inside = strings(text);
  depth = cumsum(~inside & (text == '{' | text == '[')) - cumsum(~inside & (text == '}' | text == ']'));
  blank = ismember(text, char([32 9 10 13])) & ~inside;
  keys = {};
  for colon = find(~inside & text == ':' & depth == 1)
    start = colon + find(~blank(colon + 1:end), 1);
    if isempty(start) || text(start) ~= '['
      continue
    end
    % The quotation mark that opens a text is inside of it, the one that closes it is not.
    close = find(~blank(1:colon - 1), 1, 'last');
    open = 1 + max([0, find(~inside(1:close - 1), 1, 'last')]);
    key = jsondecode(['{"key":' text(open:close) '}']);
    keys{end + 1} = matlab.lang.makeValidName(key.key);
  end
end

function inside = strings(text)
  % Which characters are in texts.
  escaped = false(size(text));
  for k = find(text == '\')
    if ~escaped(k) && k < numel(text)
      escaped(k + 1) = true;
    end
  end
  inside = mod(cumsum(text == '"' & ~escaped), 2) == 1;
end
